// A source on the official MCP TypeScript SDK, as its examples build one, with an event store that
// knows its streams. It is driven as the Python source beside it: a client calls `follow` or `work`,
// and a test tells it by POST to `emit` keys, be `busy` in
// the next replay, `forget` its log, or `finish` the work. Each key is
// noted in a file before it is sent: that is the truth that a test compares with.
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';

const { values: given } = parseArgs({
  options: {
    fd: { type: 'string' },
    log: { type: 'string' },
    ids: { type: 'string', default: 'random' },
    window: { type: 'string', default: '1000' },
    'unknown-session': { type: 'string', default: '404' },
  },
});

// The events of every stream, the last `window` of each.
class Store {
  #streams = new Map();
  #count = 0;

  forget() {
    this.#streams.clear();
    this.#count = 0;
  }

  async storeEvent(streamId, message) {
    const eventId = given.ids === 'counted' ? String(++this.#count) : randomUUID();
    const events = this.#streams.get(streamId) ?? [];
    events.push({ eventId, message });
    this.#streams.set(streamId, events.slice(-Number(given.window)));
    return eventId;
  }

  async getStreamIdForEventId(lastEventId) {
    for (const [streamId, events] of this.#streams) {
      if (events.some(({ eventId }) => eventId === lastEventId)) return streamId;
    }
    return undefined;
  }

  async replayEventsAfter(lastEventId, { send }) {
    const streamId = await this.getStreamIdForEventId(lastEventId);
    const events = this.#streams.get(streamId) ?? [];
    const place = events.findIndex(({ eventId }) => eventId === lastEventId);
    for (const { eventId, message } of events.slice(place + 1)) await send(eventId, message);
    await beBusy();
    return streamId;
  }
}

const store = given.ids === 'none' ? undefined : new Store();
const transports = new Map();
const followers = [];
const finished = withResolvers();
const busy = [];
let slow = false;
const SLOW_MS = 200;

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => (made.resolve = resolve));
  return made;
}

function text(said) {
  return { content: [{ type: 'text', text: said }] };
}

function serverOfSession() {
  const server = new McpServer(
    { name: 'real-source', version: '1' },
    { capabilities: { logging: {} } },
  );
  server.registerTool('follow', {}, async () => {
    followers.push((message) => server.server.notification(message));
    return text('following');
  });
  server.registerTool('work', {}, async (extra) => {
    followers.push((message) => extra.sendNotification(message));
    await finished.promise;
    return text('worked');
  });
  return server;
}

async function transportFor(request, body) {
  const known = transports.get(request.headers['mcp-session-id']);
  if (known) return known;
  if (request.method !== 'POST' || !isInitializeRequest(body)) return undefined;
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: store,
    onsessioninitialized: (session) => transports.set(session, transport),
  });
  await serverOfSession().connect(transport);
  return transport;
}

async function mcp(request, response, body) {
  const transport = await transportFor(request, body);
  if (transport) return transport.handleRequest(request, response, body);
  const status = Number(given['unknown-session']);
  const error = { code: -32001, message: 'Session not found' };
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error, id: null }));
}

async function emit(keys) {
  for (const key of keys) {
    appendFileSync(given.log, `${key}\n`);
    const params = { level: 'info', logger: 'events', data: { k: key } };
    for (const tell of followers) await tell({ method: 'notifications/message', params });
  }
}

// Time passes in a store that is slow: behind all that a replay brings, and before that is said.
async function beBusy() {
  if (slow) {
    const keys = busy.splice(0);
    await setTimeout(SLOW_MS);
    await emit(keys);
  }
}

const told = {
  async emit({ keys }) {
    await emit(keys);
  },
  async busy({ keys }) {
    slow = true;
    busy.push(...keys);
  },
  async settle() {
    // The SDK answers a resume only behind its replay.
  },
  async forget() {
    store?.forget();
  },
  async finish() {
    finished.resolve();
  },
};

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
}

const http = createServer(async (request, response) => {
  try {
    const body = request.method === 'POST' ? await bodyOf(request) : undefined;
    if (request.url === '/mcp') return await mcp(request, response, body);
    await told[request.url.slice(1)](body);
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});
http.listen({ fd: Number(given.fd) });
