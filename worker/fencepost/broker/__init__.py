"""NATS JetStream: one connection, its publisher and puller, the streams, and a server to bring."""
