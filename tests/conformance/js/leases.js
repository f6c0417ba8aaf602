// Leases kept alive by the client, locks and elections.
'use strict';

const { once } = require('events');
const { EtcdLeaseInvalidError, EtcdLockFailedError } = require('etcd3');

// etcd's smallest; three renewals take longer than it lasts.
const TTL_SECONDS = 2;

async function leases({ client, prefix }) {
  const lease = client.lease(TTL_SECONDS);
  const id = await lease.grant();
  await lease.put(`${prefix}kept`).value('x');
  const ttls = [];
  while (ttls.length < 5) {
    const [answer] = await once(lease, 'keepaliveSucceeded');
    ttls.push(answer.TTL);
  }
  const kept = await client.get(`${prefix}kept`).string();
  const onceMore = await lease.keepaliveOnce();
  const listed = (await client.leaseClient.leaseLeases()).leases.map((entry) => entry.ID);
  await lease.revoke();
  return {
    ttls,
    kept,
    sameId: onceMore.ID === id,
    listed: listed.includes(id),
    afterRevoke: await client.get(`${prefix}kept`).string(),
    revoked: lease.revoked(),
  };
}

// A lease somebody else revokes is reported as lost, and so is one the client lets go.
async function lostLeases({ client, connect, prefix }) {
  const other = connect();
  const lease = client.lease(TTL_SECONDS);
  await lease.put(`${prefix}k`).value('x');
  const lost = once(lease, 'lost');
  await other.leaseClient.leaseRevoke({ ID: await lease.grant() });
  const [error] = await lost;

  const released = client.lease(TTL_SECONDS);
  await released.put(`${prefix}released`).value('x');
  const watcher = await client.watch().key(`${prefix}released`).create();
  const gone = once(watcher, 'delete');
  released.release();
  await gone;
  await watcher.cancel();

  let late = null;
  try {
    await client.put(`${prefix}late`).value('x').lease(await released.grant());
  } catch (failure) {
    late = failure.message;
  }
  return {
    lost: error instanceof EtcdLeaseInvalidError,
    key: await client.get(`${prefix}k`).string(),
    released: await client.get(`${prefix}released`).string(),
    late,
  };
}

async function locks({ client, connect, prefix }) {
  const other = connect();
  const name = `${prefix}lock`;
  const order = [];
  let failure = null;
  const result = await client.lock(name).ttl(10).do(async () => {
    order.push('held');
    try {
      await other.lock(name).acquire();
    } catch (error) {
      failure = error instanceof EtcdLockFailedError;
    }
    return 'returned';
  });
  const second = other.lock(name).ttl(10);
  await second.acquire();
  order.push('held by other');
  await second.release();
  return { order, failure, result, left: await client.get(name).string() };
}

async function elections({ client, connect, prefix }) {
  const name = `${prefix}election`;
  const observer = await connect().election(name).observe();
  const leaders = [];
  const heard = (value) =>
    new Promise((resolve) => {
      const check = (leader) => {
        if (leader === value) {
          observer.removeListener('change', check);
          resolve();
        }
      };
      observer.on('change', check);
      check(observer.leader());
    });
  observer.on('change', (leader) => leaders.push(leader === undefined ? null : leader));

  const one = client.election(name).campaign('one');
  await Promise.all([one.wait(), heard('one')]);
  const contender = connect();
  const two = contender.election(name).campaign('two');
  const elected = two.wait();
  // Its key stands in line before the first one leaves.
  await once(two, '_isWaiting');
  const before = await client.election(name).leader();
  await one.proclaim('one again');
  await heard('one again');
  await one.resign();
  await Promise.all([elected, heard('two')]);
  const after = await client.election(name).leader();
  await two.resign();
  const nobody = await client.election(name).leader();
  await observer.cancel();
  return { before, after, nobody: nobody === undefined, leaders: leaders.filter((l) => l !== null) };
}

module.exports = { leases, lostLeases, locks, elections };
