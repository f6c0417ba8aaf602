// Clients of the Redis protocol, unchanged: node redis_scenario.js NAME PORT [PROTOCOL]. Prints one JSON result.
'use strict';

const Ioredis = require('ioredis');
const nodeRedis = require('redis');
const redlock4 = require('redlock4');
const redlock5 = require('redlock5');

const port = Number(process.argv[3]);
const errorText = (error) => error.message;

async function fails(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return errorText(error);
  }
}

async function until(predicate) {
  for (;;) {
    if (await predicate()) return true;
    await new Promise((resolve) => { setTimeout(resolve, 5); });
  }
}

const scenarios = {
  async ioredis() {
    const client = new Ioredis({ port });
    const other = new Ioredis({ port });
    const result = {};
    await client.flushall();
    result.set = await client.set('a', '1', 'PX', 100000, 'NX');
    result.again = await client.set('a', '2', 'PX', 100000, 'NX');
    result.get = await client.get('a');
    result.pipeline = await client.pipeline().set('n', 1).incr('n').get('n').exec();
    result.multi = await client.multi().set('m', 1).incr('m').lpush('m', 'x').exec();
    result.multi[2][0] = errorText(result.multi[2][0]);
    await client.watch('a');
    await other.set('a', 'changed');
    result.watched = await client.multi().set('a', 'mine').exec();
    result.hash = [await client.hset('h', { f: 'v', g: 'w' }), await client.hgetall('h')];
    client.defineCommand('release', {
      numberOfKeys: 1,
      lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    });
    result.script = [await client.release('a', 'wrong'), await client.release('a', 'changed'), await client.get('a')];
    result.error = await fails(client.incr('h'));
    const messages = [];
    other.on('message', (channel, message) => messages.push([channel, message]));
    await other.subscribe('news');
    result.published = await client.publish('news', 'hello');
    await until(() => messages.length === 1);
    result.messages = messages;
    const waiter = new Ioredis({ port });
    const popped = waiter.blpop('queue', 60);
    await client.rpush('queue', 'job');
    result.popped = await popped;
    await client.set('short', '1', 'PX', 30);
    await until(async () => (await client.get('short')) === null);
    const keys = [];
    await client.mset(Object.fromEntries([...Array(100).keys()].map((i) => [`k${i}`, i])));
    for await (const found of client.scanStream({ match: 'k*', count: 10 })) keys.push(...found);
    result.scanned = new Set(keys).size;
    result.buffer = (await client.getBuffer('n')).toString('hex');
    client.disconnect();
    other.disconnect();
    waiter.disconnect();
    return result;
  },

  async nodeRedis() {
    const RESP = Number(process.argv[4] || 2);
    const client = nodeRedis.createClient({ socket: { port, host: '127.0.0.1' }, RESP });
    const result = {};
    await client.connect();
    await client.flushAll();
    result.set = await client.set('a', '1', { NX: true, PX: 100000 });
    result.again = await client.set('a', '2', { NX: true });
    result.ttl = (await client.pTTL('a')) > 0;
    result.multi = await client.multi().set('n', '1').incr('n').get('n').exec();
    result.hash = [await client.hSet('h', { f: 'v', g: 'w' }), { ...await client.hGetAll('h') }];
    result.zset = [await client.zAdd('z', [{ score: 1.5, value: 'a' }, { score: 2, value: 'b' }]),
      await client.zRangeWithScores('z', 0, -1), await client.zScore('z', 'a')];
    result.eval = await client.eval('return {KEYS[1], ARGV[1], 7}', { keys: ['k'], arguments: ['v'] });
    result.error = await fails(client.incr('h'));
    result.unknown = await fails(client.sendCommand(['NOSUCH', 'x']));
    const subscriber = client.duplicate();
    await subscriber.connect();
    const messages = [];
    await subscriber.subscribe('news', (message, channel) => messages.push([channel, message]));
    await subscriber.pSubscribe('n*', (message, channel) => messages.push(['pattern', channel, message]));
    result.published = await client.publish('news', 'hello');
    await until(() => messages.length === 2);
    result.messages = messages.sort();
    await client.mSet(Object.fromEntries([...Array(100).keys()].map((i) => [`k${i}`, `${i}`])));
    const keys = [];
    for await (const found of client.scanIterator({ MATCH: 'k*', COUNT: 10 })) keys.push(...[].concat(found));
    result.scanned = new Set(keys).size;
    await subscriber.close();
    await client.close();
    return result;
  },

  async redlock4() {
    const client = new Ioredis({ port });
    await client.flushall();
    const Redlock = redlock4;
    const locks = new Redlock([client], { retryCount: 0 });
    const result = {};
    const lock = await locks.lock('resource', 100000);
    result.held = await client.exists('resource');
    result.second = await fails(locks.lock('resource', 1000));
    const extended = await lock.extend(200000);
    result.extended = (await client.pttl('resource')) > 150000;
    await extended.unlock();
    result.left = await client.exists('resource');
    result.again = await fails(lock.unlock());
    const short = await locks.lock('short', 30);
    await until(async () => !(await client.exists('short')));
    result.expired = await fails(short.unlock());
    const waiting = new Redlock([client], { retryCount: 2000, retryDelay: 5, retryJitter: 5 });
    let inside = 0;
    let most = 0;
    await Promise.all([...Array(10).keys()].map(async () => {
      const own = await waiting.lock('shared', 60000);
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => { setTimeout(resolve, 2); });
      inside -= 1;
      await own.unlock();
    }));
    result.most = most;
    const both = await locks.lock(['a', 'b'], 100000);
    result.both = await client.exists('a', 'b');
    result.overlap = await fails(locks.lock(['b', 'c'], 1000));
    await both.unlock();
    client.disconnect();
    return result;
  },

  async redlock5() {
    const client = new Ioredis({ port });
    await client.flushall();
    const Redlock = redlock5.default;
    const locks = new Redlock([client], { retryCount: 0 });
    locks.on('error', () => {});
    const result = {};
    let lock = await locks.acquire(['resource'], 100000);
    result.held = await client.exists('resource');
    result.second = await fails(locks.acquire(['resource'], 1000));
    lock = await lock.extend(200000);
    result.extended = (await client.pttl('resource')) > 150000;
    await lock.release();
    result.left = await client.exists('resource');
    result.again = await fails(lock.release());
    const both = await locks.acquire(['a', 'b'], 100000);
    result.both = await client.exists('a', 'b');
    result.overlap = await fails(locks.acquire(['b', 'c'], 1000));
    await both.release();
    const waiting = new Redlock([client], { retryCount: 2000, retryDelay: 5, retryJitter: 5 });
    waiting.on('error', () => {});
    let inside = 0;
    let most = 0;
    await Promise.all([...Array(10).keys()].map(() => waiting.using(['shared'], 60000, async () => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => { setTimeout(resolve, 2); });
      inside -= 1;
    })));
    result.most = most;
    client.disconnect();
    return result;
  },
};

scenarios[process.argv[2]]().then((result) => {
  process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
}, (error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
