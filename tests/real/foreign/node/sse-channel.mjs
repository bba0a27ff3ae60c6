// A source on sse-channel, as its README builds one: ids are counted by the host, from 1 in each
// life. A test tells it by POST to `emit` keys, or to `forget` its channel; each key is noted in a
// file before it is sent.
import SseChannel from 'sse-channel';

import { given, serve } from './source.mjs';

let count = 0;
let channel = anew();

function anew() {
  return new SseChannel({ historySize: Number(given.window), jsonEncode: true });
}

serve({
  follow: (request, response) => channel.addClient(request, response),
  send: (k) => channel.send({ id: ++count, event: 'note', data: { k } }),
  // Whoever is subscribed is subscribed to the channel that was.
  forget() {
    channel.close();
    channel = anew();
    count = 0;
  },
});
