#include "doors/leased_v1/leased_v1_api.h"

#include "base/pb_append.h"

void leased_v1_api_init(struct leased_v1_api *api, struct service *service,
                        const struct leased_v1_error *(*error_of)(enum status status)) {
    *api = (struct leased_v1_api){.service = service, .error_of = error_of};
    buffer_init(&api->scratch);
}

void leased_v1_api_clear(struct leased_v1_api *api) {
    buffer_clear(&api->scratch);
}

/* Asked for once a millisecond at most: every answer needs it, and it hardly ever changes. */
static void refresh_identity(struct leased_v1_api *api) {
    uint64_t now_ms = service_now_ms(api->service);
    if (api->identity.is_known && now_ms == api->identity.asked_ms) {
        return;
    }
    struct service_info info;
    service_info(api->service, &info);
    api->identity.cluster_id = info.cluster_id;
    api->identity.member_id = info.member_id;
    api->identity.term = info.term;
    api->identity.asked_ms = now_ms;
    api->identity.is_known = true;
}

static int64_t newest_revision(const struct leased_v1_api *api) {
    return key_store_revision(state_view_keys(service_view(api->service)));
}

struct leased_v1_header leased_v1_header_now(struct leased_v1_api *api) {
    refresh_identity(api);
    return (struct leased_v1_header){.cluster_id = api->identity.cluster_id,
                                     .member_id = api->identity.member_id,
                                     .revision = newest_revision(api),
                                     .term = api->identity.term};
}

struct buffer *leased_v1_answer_begin_at(struct leased_v1_api *api, int64_t revision) {
    refresh_identity(api);
    struct buffer *out = &api->scratch;
    out->size = 0;
    size_t header = pb_append_begin(out, 1);
    pb_append_uint64(out, 1, api->identity.cluster_id);
    pb_append_uint64(out, 2, api->identity.member_id);
    pb_append_int64(out, 3, revision);
    pb_append_uint64(out, 4, api->identity.term);
    pb_append_end(out, header);
    return out;
}

struct buffer *leased_v1_answer_begin(struct leased_v1_api *api) {
    return leased_v1_answer_begin_at(api, newest_revision(api));
}

void leased_v1_answer_send(struct grpc_call *call, const struct buffer *answer) {
    grpc_call_send(call, bytes_of(answer->data, answer->size));
}

void leased_v1_answer_finish(struct grpc_call *call, const struct buffer *answer) {
    leased_v1_answer_send(call, answer);
    grpc_call_finish(call, GRPC_OK, NULL);
}
