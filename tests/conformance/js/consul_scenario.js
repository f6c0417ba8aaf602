// npm's consul against a server of Consul's API: prints what it saw as JSON. node consul_scenario.js PORT
"use strict";
const Consul = require("consul");

const consul = new Consul({ host: "127.0.0.1", port: Number(process.argv[2]) });

async function keys() {
  const seen = {};
  seen.set = await consul.kv.set("js/a", "1");
  await consul.kv.set({ key: "js/b", value: "2", flags: 7 });
  const got = await consul.kv.get("js/a");
  seen.value = got.Value;
  seen.missing = (await consul.kv.get("js/none")) === undefined;
  seen.keys = await consul.kv.keys("js/");
  seen.tree = (await consul.kv.get({ key: "js/", recurse: true })).map((entry) => entry.Flags);
  seen.cas = [
    Boolean(await consul.kv.set({ key: "js/a", value: "3", cas: "1" })),
    Boolean(await consul.kv.set({ key: "js/a", value: "3", cas: String(got.ModifyIndex) })),
  ];
  seen.txn = (
    await consul.transaction.create([{ KV: { Verb: "get", Key: "js/a" } }, { KV: { Verb: "set", Key: "js/c", Value: "dg==" } }])
  ).Results.length;
  await consul.kv.del({ key: "js/", recurse: true });
  seen.deleted = (await consul.kv.get("js/a")) === undefined;
  return seen;
}

async function locks() {
  const seen = {};
  const first = (await consul.session.create({ name: "js", ttl: "15s", lockdelay: "0s" })).ID;
  const second = (await consul.session.create({ lockdelay: "0s" })).ID;
  seen.acquired = await consul.kv.set({ key: "js/lock", value: "x", acquire: first });
  seen.refused = Boolean(await consul.kv.set({ key: "js/lock", value: "y", acquire: second }));
  seen.renewed = (await consul.session.renew(first))[0].TTL;
  seen.listed = (await consul.session.list()).length >= 2;
  await consul.session.destroy(first);
  seen.next = await consul.kv.set({ key: "js/lock", value: "y", acquire: second });
  seen.holder = (await consul.kv.get("js/lock")).Session === second;
  seen.gone = (await consul.session.get(first)) === undefined;
  await consul.session.destroy(second);
  await consul.kv.del("js/lock");
  return seen;
}

function change(watch, test) {
  return new Promise((resolve, reject) => {
    watch.on("change", (data) => test(data) && resolve(data));
    watch.on("error", reject);
  });
}

async function services() {
  const seen = {};
  await consul.agent.service.register({ name: "js-web", id: "js:1", port: 80, tags: ["a"], check: { ttl: "30s" } });
  const watch = consul.watch({ method: consul.health.service, options: { service: "js-web", passing: true } });
  const woken = change(watch, (data) => data.length === 1);
  await consul.agent.check.pass("service:js:1");
  seen.watched = (await woken)[0].Service.ID;
  watch.end();
  seen.services = Object.keys(await consul.agent.service.list());
  seen.status = (await consul.agent.check.list())["service:js:1"].Status;
  seen.catalog = (await consul.catalog.service.nodes("js-web"))[0].ServicePort;
  seen.names = Object.keys(await consul.catalog.service.list()).includes("js-web");
  await consul.agent.service.maintenance({ id: "js:1", enable: true, reason: "r" });
  seen.maintained = (await consul.health.service({ service: "js-web", passing: true })).length;
  await consul.agent.service.deregister("js:1");
  seen.left = (await consul.catalog.service.nodes("js-web")).length;
  seen.leader = (await consul.status.leader()).includes(":");
  await consul.event.fire("js-event", "payload");
  seen.event = (await consul.event.list("js-event"))[0].Payload;
  return seen;
}

async function catalog() {
  const seen = {};
  const service = { ID: "one", Service: "js-db", Port: 5432 };
  const answer = await consul.transaction.create([
    { Node: { Verb: "set", Node: { Node: "js-node", Address: "10.7.7.7", Meta: { rack: "r1" } } } },
    { Service: { Verb: "set", Node: "js-node", Service: service } },
    { Check: { Verb: "set", Check: { Node: "js-node", CheckID: "alive", ServiceID: "one", Status: "passing" } } },
    { KV: { Verb: "set", Key: "js/db", Value: "dg==" } },
  ]);
  seen.kinds = answer.Results.map((result) => Object.keys(result)[0]);
  seen.services = Object.keys((await consul.catalog.node.services("js-node")).Services);
  seen.meta = (await consul.catalog.node.list({ "node-meta": ["rack:r1"] })).map((node) => node.Node);
  seen.passing = (await consul.health.service({ service: "js-db", passing: true }))[0].Node.Address;
  seen.checks = (await consul.health.node("js-node")).map((check) => check.CheckID);
  const failed = await consul.transaction
    .create([{ Service: { Verb: "cas", Node: "js-node", Service: service } }])
    .catch((error) => error.statusCode);
  seen.failed = failed;
  await consul.transaction.create([{ Node: { Verb: "delete", Node: { Node: "js-node" } } }]);
  seen.left = (await consul.catalog.service.nodes("js-db")).length;
  await consul.kv.del("js/db");
  return seen;
}

async function main() {
  const seen = { keys: await keys(), locks: await locks(), services: await services(), catalog: await catalog() };
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
