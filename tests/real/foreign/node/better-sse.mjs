// A source on better-sse, as its README builds one: each event has a random id, and none is kept.
import { createChannel, createSession } from 'better-sse';

import { serve } from './source.mjs';

const channel = createChannel();

serve({
  follow: async (request, response) => channel.register(await createSession(request, response)),
  send: (k) => channel.broadcast({ k }, 'note'),
  forget() {
    // There is nothing that it could forget.
  },
});
