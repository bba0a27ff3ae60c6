"""What tests need again and again: scripted sources, a broker, waiting for something to be so."""
