#include "doors/registry/registry_api_call.h"

enum {
    /* Of a request that reads: names are short. Unknown fields must not make it large. */
    READ_SIZE_MAX = 64 * 1024
};

void registry_api_call_read(struct grpc_call *call, struct bytes message, struct key_range range,
                            bool is_local,
                            void (*resume)(struct grpc_call *call, struct bytes message)) {
    const struct leased_v1_read read = {.message = message,
                                        .message_size_max = READ_SIZE_MAX,
                                        .ranges = &range,
                                        .n_ranges = 1,
                                        .is_local = is_local};
    leased_v1_call_read(&registry_api_of(call)->api, call, &read, resume);
}
