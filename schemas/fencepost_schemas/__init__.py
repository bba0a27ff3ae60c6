"""The vocabulary: frozen structs, grammars and bounds. Imports msgspec only."""
