// What the sources on SSE libraries have in common: how they are started, and how they are told.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';

export const { values: given } = parseArgs({
  options: {
    fd: { type: 'string' },
    log: { type: 'string' },
    window: { type: 'string', default: '1000' },
  },
});

// GET is answered by `follow`; POST to /emit has each key noted and then sent, POST to /forget has
// the log forgotten.
export function serve({ follow, send, forget }) {
  const told = {
    emit(keys) {
      for (const key of keys) {
        appendFileSync(given.log, `${key}\n`);
        send(key);
      }
    },
    forget,
  };
  const http = createServer(async (request, response) => {
    try {
      if (request.method === 'GET') return await follow(request, response);
      const { keys } = JSON.parse(await text(request));
      told[request.url.slice(1)](keys);
      response.writeHead(200).end();
    } catch (error) {
      console.error(error);
      response.writeHead(500).end();
    }
  });
  http.listen({ fd: Number(given.fd) });
}
