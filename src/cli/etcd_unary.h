/*
 * One call of etcd's API at a time, for commands that manage a server: members, users, roles. The
 * caller's user is proven first where --user is given.
 */
#ifndef LEASED_CLI_ETCD_UNARY_H
#define LEASED_CLI_ETCD_UNARY_H

#include "cli/cli.h"
#include "client/grpc_client.h"

#include <protobuf-c/protobuf-c.h>

struct etcd_method {
    struct grpc_client_method method;
    const ProtobufCMessageDescriptor *answer;
};

void etcd_unary_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                    struct bytes message);

#define ETCD_METHOD(service_and_name, descriptor)                                                  \
    {                                                                                              \
        .method = {.path = "/etcdserverpb." service_and_name,                                      \
                   .unary = true,                                                                  \
                   .on_end = etcd_unary_end},                                                      \
        .answer = &(descriptor)                                                                    \
    }

/* Sends the request and waits. NULL: it failed, and was said on standard error. Otherwise the
 * answer, to be released by etcd_unary_free(). */
ProtobufCMessage *etcd_unary(struct cli *cli, struct lease_client *client,
                             const struct etcd_method *method, const ProtobufCMessage *request);
void etcd_unary_free(ProtobufCMessage *answer);

/* Connects, asks once, disconnects. */
ProtobufCMessage *etcd_ask(struct cli *cli, const struct etcd_method *method,
                           const ProtobufCMessage *request);

/* Proves --user on a connection; does nothing without it. False: said on standard error. */
bool etcd_authenticate(struct cli *cli, struct lease_client *client);

#endif
