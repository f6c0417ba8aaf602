// Runs one scenario with npm's etcd3 and prints what it saw as one line of JSON.
//
//   node scenario.js NAME URL
//
// A scenario is a function of { client, connect, prefix, say, hear }. It only reports;
// the test that started it judges. A line of JSON with "step" asks the test to do
// something, which it confirms with a line on our standard input.
'use strict';

const readline = require('readline');
const { Etcd3 } = require('etcd3');
const { ConstantBackoff, noop } = require('cockatiel');

const scenarios = {
  ...require('./keys'),
  ...require('./leases'),
  ...require('./watches'),
};

const SCENARIO_MS = 30000;
const RECONNECT_MS = 50;

async function main() {
  const [name, url] = process.argv.slice(2);
  const clients = [];
  const connect = () => {
    const client = new Etcd3({
      hosts: url,
      // Failures must show at once, and a lost watch must come back quickly.
      faultHandling: {
        host: () => noop,
        global: noop,
        watchBackoff: new ConstantBackoff(RECONNECT_MS),
      },
    });
    clients.push(client);
    return client;
  };
  const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
  const ask = async (step) => {
    say({ step });
    await input.next();
  };
  const timeout = setTimeout(() => {
    say({ failed: `no end within ${SCENARIO_MS} ms` });
    process.exit(1);
  }, SCENARIO_MS);
  try {
    const result = await scenarios[name]({
      client: connect(),
      connect,
      prefix: `js/${name}/`,
      ask,
    });
    say({ result });
  } catch (error) {
    say({ failed: `${error.name}: ${error.message}\n${error.stack}` });
    process.exitCode = 1;
  }
  clearTimeout(timeout);
  clients.forEach((client) => client.close());
  // Streams that a lost server left half-open must not keep us here.
  process.exit();
}

main();
