// npm's eureka-js-client, unchanged: registers, beats, fetches all, then by the delta, and leaves when it is stopped.
// Arguments: port of the Eureka API, whether to use the delta. What happened is printed as JSON; a line on standard
// input lets it go on to the next step, so that the test decides when.
'use strict';

const readline = require('readline');
const { Eureka } = require('eureka-js-client');

const port = Number(process.argv[2]);
const usesDelta = process.argv[3] === 'delta';
const quiet = { debug() {}, info() {}, warn() {}, error() {}, level() {} };

const client = new Eureka({
  logger: quiet,
  shouldUseDelta: usesDelta,
  instance: {
    app: 'jsapp', instanceId: `js-${usesDelta}`, hostName: 'localhost', ipAddr: '127.0.0.1',
    port: { $: 8080, '@enabled': true }, vipAddress: 'jq.test.example', statusPageUrl: 'http://localhost:8080/info',
    dataCenterInfo: { '@class': 'com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo', name: 'MyOwn' },
    leaseInfo: { durationInSecs: 5, renewalIntervalInSecs: 1 },
  },
  eureka: {
    host: '127.0.0.1', port, servicePath: '/eureka/v2/apps/', heartbeatInterval: 200, registryFetchInterval: 100,
    maxRetries: 0,
  },
});

const counts = { registered: 0, heartbeat: 0, registryUpdated: 0, deregistered: 0 };
for (const event of Object.keys(counts)) client.on(event, () => { counts[event] += 1; });

function tell() {
  const others = client.getInstancesByAppId('OTHERS').map((one) => one.instanceId).sort();
  const mine = client.getInstancesByVipAddress('jq.test.example').map((one) => [one.instanceId, one.port.$, one.status]);
  console.log(JSON.stringify({ counts, others, mine }));
}

const lines = readline.createInterface({ input: process.stdin });
client.start((error) => {
  if (error) {
    console.error(error);
    process.exit(1);
  }
  tell();
});
lines.on('line', (line) => {
  if (line === 'tell') tell();
  if (line === 'stop') client.stop((error) => { tell(); process.exit(error ? 1 : 0); });
});
