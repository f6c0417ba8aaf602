// Keys, ranges, transactions, namespaces.
'use strict';

async function keys({ client, prefix }) {
  const key = `${prefix}k`;
  const missing = await client.get(key).string();
  await client.put(key).value('text');
  const text = await client.get(key).string();
  await client.put(key).value(42);
  const number = await client.get(key).number();
  await client.put(key).value(JSON.stringify({ a: [1, 2] }));
  const json = await client.get(key).json();
  await client.put(key).value(Buffer.from([0, 255, 128]));
  const bytes = [...(await client.get(key).buffer())];
  const previous = await client.put(key).value('last').getPrevious();
  const deleted = await client.delete().key(key).exec();
  return {
    missing,
    text,
    number,
    json,
    bytes,
    previousVersion: previous.version,
    deleted: deleted.deleted,
    exists: await client.get(key).exists(),
  };
}

async function ranges({ client, prefix }) {
  for (const [name, value] of [['b', '2'], ['a', '3'], ['d', '1'], ['c', '4'], ['a', '5']]) {
    await client.put(prefix + name).value(value);
  }
  const all = () => client.getAll().prefix(prefix);
  const short = (names) => names.map((name) => name.slice(prefix.length)).join('');
  const sorted = async (target, order) => short(await all().sort(target, order).keys());
  return {
    strings: await client.namespace(prefix).getAll().strings(),
    numbers: await client.namespace(prefix).getAll().numbers(),
    keys: short(await all().keys()),
    count: await all().count(),
    limited: short(await all().limit(2).keys()),
    more: (await all().limit(2).exec()).more,
    byKey: await sorted('Key', 'Descend'),
    byValue: await sorted('Value', 'Ascend'),
    byMod: await sorted('Mod', 'Ascend'),
    byCreate: await sorted('Create', 'Descend'),
    byVersion: (await sorted('Version', 'Descend'))[0],
    newest: short(await all().sort('Create', 'Descend').limit(1).keys()),
    inRange: short(await client.getAll().inRange({ start: `${prefix}b`, end: `${prefix}d` }).keys()),
    deleted: (await client.delete().prefix(prefix).exec()).deleted,
    left: await all().count(),
  };
}

async function transactions({ client, prefix }) {
  const key = `${prefix}k`;
  const attempt = (revision) =>
    client
      .if(key, 'Create', '==', revision)
      .then(client.put(key).value('created'))
      .else(client.get(key))
      .commit();
  const first = await attempt(0);
  const second = await attempt(0);
  const several = await client
    .if(key, 'Value', '==', 'created')
    .and(key, 'Version', '==', 1)
    .then(client.put(`${prefix}other`).value('x'), client.delete().key(key))
    .commit();
  let duplicate = null;
  try {
    await client
      .if(key, 'Version', '==', 0)
      .then(client.put(key).value('1'), client.put(key).value('2'))
      .commit();
  } catch (error) {
    duplicate = error.message;
  }
  return {
    first: first.succeeded,
    second: second.succeeded,
    found: second.responses[0].response_range.kvs[0].value.toString(),
    several: several.succeeded,
    left: (await client.getAll().prefix(prefix).keys()).map((name) => name.slice(prefix.length)),
    duplicate,
  };
}

// Two clients add to one number; software transactions retry what collided.
async function stm({ client, connect, prefix }) {
  const rounds = 10;
  const other = connect();
  const key = `${prefix}sum`;
  await client.put(key).value(0);
  const add = (who) =>
    who
      .stm({ retries: 100 })
      .transact(async (tx) => {
        const value = await tx.get(key).number();
        await tx.put(key).value(value + 1);
      });
  const work = [];
  for (let round = 0; round < rounds; round++) {
    work.push(add(client), add(other));
  }
  await Promise.all(work);
  return { rounds, sum: await client.get(key).number() };
}

async function namespaces({ client, prefix }) {
  const inside = client.namespace(prefix);
  const nested = inside.namespace('deep/');
  await inside.put('a').value('1');
  await nested.put('b').value('2');
  const watcher = await inside.watch().prefix('').create();
  const seen = new Promise((resolve) => watcher.on('put', (kv) => resolve(kv.key.toString())));
  await inside.put('c').value('3');
  const result = {
    inside: await inside.getAll().keys(),
    outside: (await client.getAll().prefix(prefix).keys()).map((key) => key.slice(prefix.length)),
    nested: await nested.get('b').string(),
    watched: await seen,
  };
  await watcher.cancel();
  await inside.delete().all();
  result.left = await client.getAll().prefix(prefix).count();
  return result;
}

module.exports = { keys, ranges, transactions, stm, namespaces };
