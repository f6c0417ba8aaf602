#include "cli/etcd_unary.h"

#include "cli/cli_user.h"
#include "client/lease_client.h"
#include "proto/etcd.pb-c.h"

#include <string.h>

enum { TEXT_SIZE_MAX = 512 };

struct pending {
    uv_loop_t *loop;
    const ProtobufCMessageDescriptor *descriptor;
    bool is_done;
    enum grpc_code code;
    char text[TEXT_SIZE_MAX];
    ProtobufCMessage *answer;
};

void etcd_unary_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                    struct bytes message) {
    struct pending *pending = *(struct pending **)grpc_client_call_room(call);
    pending->is_done = true;
    pending->code = code;
    snprintf(pending->text, sizeof pending->text, "%s", text);
    if (code == GRPC_OK) {
        pending->answer =
            protobuf_c_message_unpack(pending->descriptor, NULL, message.size, message.data);
        if (pending->answer == NULL) {
            pending->code = GRPC_INTERNAL;
            snprintf(pending->text, sizeof pending->text, "the answer could not be decoded");
        }
    }
    uv_stop(pending->loop);
}

ProtobufCMessage *etcd_unary(struct cli *cli, struct lease_client *client,
                             const struct etcd_method *method, const ProtobufCMessage *request) {
    struct pending pending = {.loop = &cli->loop, .descriptor = method->answer};
    struct grpc_client_call *call =
        grpc_client_open(lease_client_connection(client), &method->method, cli->timeout_ms);
    if (call == NULL) {
        fputs("lease: the connection was lost\n", stderr);
        return NULL;
    }
    *(struct pending **)grpc_client_call_room(call) = &pending;
    size_t size = protobuf_c_message_get_packed_size(request);
    grpc_client_call_commit(call,
                            protobuf_c_message_pack(request, grpc_client_call_reserve(call, size)));
    grpc_client_call_half_close(call);
    while (!pending.is_done) {
        uv_run(&cli->loop, UV_RUN_ONCE);
    }
    if (pending.code != GRPC_OK) {
        cli_failed(cli, &(struct lease_answer){.code = pending.code, .text = pending.text});
        return NULL;
    }
    return pending.answer;
}

void etcd_unary_free(ProtobufCMessage *answer) {
    if (answer != NULL) {
        protobuf_c_message_free_unpacked(answer, NULL);
    }
}

ProtobufCMessage *etcd_ask(struct cli *cli, const struct etcd_method *method,
                           const ProtobufCMessage *request) {
    struct lease_client *client;
    if (!cli_connect(cli, &client)) {
        return NULL;
    }
    ProtobufCMessage *answer = etcd_unary(cli, client, method, request);
    cli_disconnect(cli, client);
    return answer;
}

bool etcd_authenticate(struct cli *cli, struct lease_client *client) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/Authenticate", etcdserverpb__authenticate_response__descriptor);
    Etcdserverpb__AuthenticateRequest request = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    struct cli_user user;
    if (cli_user_take(cli, &user) != CLI_OK) {
        return false;
    }
    if (user.name == NULL) {
        return true;
    }
    request.name = user.name;
    request.password = user.password;
    ProtobufCMessage *answer = etcd_unary(cli, client, &method, &request.base);
    if (answer == NULL) {
        return false;
    }
    const char *token = ((Etcdserverpb__AuthenticateResponse *)answer)->token;
    bool is_set = grpc_client_set_token(lease_client_connection(client), token);
    etcd_unary_free(answer);
    return is_set;
}
