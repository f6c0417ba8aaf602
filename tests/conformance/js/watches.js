// Watchers: creation, events, history, cancellation, resumption.
'use strict';

const { once } = require('events');

// Collects what a watcher saw, and waits until it is n things.
function collect(watcher, prefix) {
  const seen = [];
  const waiting = [];
  const add = (kind) => (kv, previous) => {
    const event = `${kind} ${kv.key.toString().slice(prefix.length)}=${kv.value.toString()}`;
    seen.push(previous ? `${event} was ${previous.value.toString()}` : event);
    waiting.forEach((check) => check());
  };
  watcher.on('put', add('put'));
  watcher.on('delete', add('delete'));
  seen.atLeast = (count) =>
    new Promise((resolve) => {
      const check = () => seen.length >= count && resolve();
      waiting.push(check);
      check();
    });
  return seen;
}

async function watchers({ client, prefix }) {
  const exact = await client.watch().key(`${prefix}a`).create();
  const all = await client.watch().prefix(prefix).withPreviousKV().create();
  const deletes = await client.watch().prefix(prefix).only('delete').create();
  const puts = await client.watch().prefix(prefix).only('put').create();
  const saw = [exact, all, deletes, puts].map((watcher) => collect(watcher, prefix));
  await client.put(`${prefix}a`).value('1');
  await client.put(`${prefix}b`).value('2');
  await client.put(`${prefix}a`).value('3');
  await client.delete().prefix(prefix);
  await client.put(`${prefix}a`).value('end');
  await Promise.all([saw[0].atLeast(4), saw[1].atLeast(6), saw[2].atLeast(2), saw[3].atLeast(4)]);
  await exact.cancel();
  await client.put(`${prefix}a`).value('after cancel');
  await saw[3].atLeast(5);
  const result = {
    exact: saw[0],
    all: saw[1].slice(0, 6),
    deletes: saw[2],
    puts: saw[3],
    ids: new Set([all.id, deletes.id, puts.id]).size,
  };
  await Promise.all([all.cancel(), deletes.cancel(), puts.cancel()]);
  return result;
}

async function history({ client, prefix }) {
  const first = await client.put(`${prefix}k`).value('0');
  for (const value of ['1', '2', '3']) {
    await client.put(`${prefix}k`).value(value);
  }
  const start = first.header.revision;
  const watcher = await client.watch().key(`${prefix}k`).startRevision(start).create();
  const saw = collect(watcher, prefix);
  await saw.atLeast(4);
  await watcher.cancel();
  await client.kv.compact({ revision: String(Number(start) + 2) });
  const late = client.watch().key(`${prefix}k`).startRevision(start).watcher();
  const [error] = await once(late, 'error');
  return { saw, compacted: error.constructor.name };
}

// The server is restarted under the watchers' feet: they come back and miss nothing.
async function resumption({ client, connect, prefix, ask }) {
  const watcher = await client.watch().prefix(prefix).create();
  const idle = await client.watch().key(`${prefix}idle`).create();
  const saw = collect(watcher, prefix);
  const sawIdle = collect(idle, prefix);
  await client.put(`${prefix}a`).value('before');
  await saw.atLeast(1);
  const reconnected = Promise.all([once(watcher, 'connected'), once(idle, 'connected')]);
  await ask('stop');
  await ask('start');
  // Written while the watchers may still be away.
  const other = connect();
  await other.put(`${prefix}b`).value('meanwhile');
  await reconnected;
  await other.put(`${prefix}idle`).value('after');
  await saw.atLeast(3);
  await sawIdle.atLeast(1);
  return { saw, sawIdle };
}

module.exports = { watchers, history, resumption };
