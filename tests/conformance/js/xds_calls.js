// xds_calls.js TARGET...: calls Health/Check at each target over and over until it is killed; one line a call: the target,
// the instance that answered, or the code of the error. npm's @grpc/grpc-js-xds finds its bootstrap in the environment.
'use strict';
const grpc = require('@grpc/grpc-js');
require('@grpc/grpc-js-xds').register();

const CALL_MS = 10000;
const PAUSE_MS = 3;
const same = (bytes) => bytes;

function call(client) {
  return new Promise((resolve) => {
    // The trailers come with the status, behind the answer.
    const request = client.makeUnaryRequest('/grpc.health.v1.Health/Check', same, same, Buffer.alloc(0),
      { deadline: Date.now() + CALL_MS }, () => {});
    request.on('status', (status) => {
      const instance = status.metadata.get('instance')[0];
      resolve(status.code === grpc.status.OK ? instance : grpc.status[status.code]);
    });
  });
}

async function main() {
  const clients = process.argv.slice(2).map(
    (target) => [target, new grpc.Client(target, grpc.credentials.createInsecure())]);
  for (;;) {
    for (const [target, client] of clients) {
      console.log(target, await call(client));
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

main();
