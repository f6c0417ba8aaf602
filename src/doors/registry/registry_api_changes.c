/* The methods that change something, but reports: each is a rule. */
#include "base/pb_append.h"
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_request.h"

/* Runs the rule with the request in the door's buffer, or answers the error. */
static void run(struct grpc_call *call, const struct leased_v1_error *error, uint32_t rule_number,
                void (*reply)(struct leased_v1_call *waiting, const struct outcome *outcome)) {
    struct registry_api *door = registry_api_of(call);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        (void)registry_api_call_run(call, rule_number, &door->api.scratch, reply);
    }
    arena_reset(&door->arena);
}

static struct buffer *begin(struct grpc_call *call) {
    struct buffer *scratch = &registry_api_of(call)->api.scratch;
    scratch->size = 0;
    return scratch;
}

static void registered(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct registry_registered answer;
    if (!registry_registered_decode(outcome->rule.answer, &answer)) {
        leased_v1_error_finish(waiting->call, registry_api_error_of(STATUS_CORRUPT));
        return;
    }
    registry_api_of(waiting->call)->stats.registered++;
    struct buffer *out = registry_api_answer_begin(registry_api_of(waiting->call));
    pb_append_int64(out, 2, answer.token);
    pb_append_int64(out, 3, answer.lease_id);
    pb_append_int64(out, 4, answer.ttl_ms);
    pb_append_int64(out, 5, answer.replaced_token);
    leased_v1_answer_finish(waiting->call, out);
}

static void on_register(struct grpc_call *call, struct bytes message) {
    struct registry_register request;
    const struct leased_v1_error *error =
        registry_api_request_register(message, &registry_api_of(call)->arena, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_register_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_REGISTER, registered);
}

static void deregistered(struct leased_v1_call *waiting, const struct outcome *outcome) {
    (void)outcome;
    registry_api_of(waiting->call)->stats.deregistered++;
    leased_v1_answer_finish(waiting->call,
                            registry_api_answer_begin(registry_api_of(waiting->call)));
}

static void on_deregister(struct grpc_call *call, struct bytes message) {
    struct registry_deregister request;
    const struct leased_v1_error *error = registry_api_request_deregister(message, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_deregister_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_DEREGISTER, deregistered);
}

static void on_set_state(struct grpc_call *call, struct bytes message) {
    struct registry_set_state request;
    const struct leased_v1_error *error = registry_api_request_set_state(message, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_set_state_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_SET_STATE, NULL);
}

static void on_set_metadata(struct grpc_call *call, struct bytes message) {
    struct registry_set_metadata request;
    const struct leased_v1_error *error =
        registry_api_request_set_metadata(message, &registry_api_of(call)->arena, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_set_metadata_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_SET_METADATA, NULL);
}

static void on_put_check(struct grpc_call *call, struct bytes message) {
    struct registry_put_check request;
    const struct leased_v1_error *error =
        registry_api_request_put_check(message, &registry_api_of(call)->arena, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_put_check_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_PUT_CHECK, NULL);
}

static void on_delete_check(struct grpc_call *call, struct bytes message) {
    struct registry_delete_check request;
    const struct leased_v1_error *error = registry_api_request_delete_check(message, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_delete_check_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_DELETE_CHECK, NULL);
}

static void on_set_service(struct grpc_call *call, struct bytes message) {
    struct registry_settings request;
    const struct leased_v1_error *error = registry_api_request_settings(message, &request);
    struct buffer *scratch = begin(call);
    if (error == NULL) {
        registry_settings_encode(scratch, &request);
    }
    run(call, error, REGISTRY_RULE_SETTINGS, NULL);
}

#define METHOD(name, handler)                                                                      \
    {                                                                                              \
        .path = "/leased.v1.Registry/" name, .answers_refused = true, .kind = GRPC_UNARY,          \
        .on_message = (handler), .on_close = leased_v1_call_closed                                 \
    }
static const struct grpc_method methods[] = {
    METHOD("RegisterInstance", on_register), METHOD("DeregisterInstance", on_deregister),
    METHOD("SetState", on_set_state),        METHOD("SetMetadata", on_set_metadata),
    METHOD("PutCheck", on_put_check),        METHOD("DeleteCheck", on_delete_check),
    METHOD("SetService", on_set_service),
};
const struct registry_api_methods registry_api_change_methods = {methods, sizeof methods /
                                                                              sizeof methods[0]};
