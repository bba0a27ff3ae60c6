// The reference server of Durable Streams, as it is: a test drives it by its own protocol.
import { parseArgs } from 'node:util';

import { DurableStreamTestServer } from '@durable-streams/server';

const { values: given } = parseArgs({
  options: {
    fd: { type: 'string' },
    folder: { type: 'string' },
  },
});

// It hands its port to `listen`, which takes a socket that is there already just as well.
const server = new DurableStreamTestServer({ port: { fd: Number(given.fd) }, dataDir: given.folder });
await server.start();
