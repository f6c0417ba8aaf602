/* What a checked program may send, whatever it is: an answer of HTTP, an answer of gRPC, an output;
 * and what a client may register as a target. The first byte chooses, the second how it is cut. */
#include "checks/check_answer.h"
#include "checks/check_request.h"
#include "checks/check_result.h"
#include "checks/check_target.h"
#include "checks/grpc_health.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed_http(struct bytes input, size_t piece, bool is_of_head) {
    struct check_answer answer;
    check_answer_init(&answer, is_of_head);
    for (size_t at = 0; at < input.size; at += piece) {
        size_t n = input.size - at < piece ? input.size - at : piece;
        (void)check_answer_feed(&answer, bytes_of(input.data + at, n));
        assert(answer.body.size <= CHECK_ANSWER_BODY_MAX);
        assert(answer.line.size <= CHECK_ANSWER_HEADER_MAX);
    }
    enum check_answer_state state = check_answer_end(&answer);
    assert(state != CHECK_ANSWER_MORE);
    assert((state == CHECK_ANSWER_FAILED) == (answer.error != NULL));
    check_answer_clear(&answer);
}

static void feed_grpc(struct bytes input, size_t piece) {
    const struct grpc_health_options options = {.authority = "host:1",
                                                .service = bytes_from_text("web")};
    struct grpc_health *health = grpc_health_create(&options);
    struct buffer out;
    struct check_result result;
    assert(health != NULL);
    buffer_init(&out);
    grpc_health_fill(health, &out);
    for (size_t at = 0; at < input.size; at += piece) {
        size_t n = input.size - at < piece ? input.size - at : piece;
        if (grpc_health_receive(health, bytes_of(input.data + at, n))) {
            break;
        }
        out.size = 0;
        grpc_health_fill(health, &out);
    }
    grpc_health_end(health, "the end");
    grpc_health_result(health, &result);
    assert(result.output_size > 0);
    buffer_clear(&out);
    grpc_health_destroy(health);
}

static void read_target(struct bytes input, uint8_t kind) {
    struct registry_check check = {.kind = kind, .target = input, .method = input};
    struct check_target target;
    const char *reason = NULL;
    struct buffer out;
    buffer_init(&out);
    if (check_target_parse(&check, &target, &reason)) {
        (void)check_request_write(&out, &check, &target, &reason);
        check.method = bytes_of("", 0);
        struct registry_pair header = {.key = bytes_from_text("X"), .value = input};
        check.headers = &header;
        check.n_headers = 1;
        (void)check_request_write(&out, &check, &target, &reason);
    } else {
        assert(reason != NULL);
    }
    buffer_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    struct bytes input = bytes_of(data + 2, size - 2);
    size_t piece = data[1] > 0 ? data[1] : input.size + 1;
    struct check_result result;
    switch (data[0] % 6) {
    case 0:
    case 1:
        feed_http(input, piece, data[0] % 6 == 1);
        break;
    case 2:
        feed_grpc(input, piece);
        break;
    case 3:
        check_result_set(&result, REGISTRY_PASSING, "");
        check_result_add(&result, input);
        break;
    default:
        read_target(input, data[0] % 6 == 4 ? REGISTRY_CHECK_HTTP : REGISTRY_CHECK_GRPC);
    }
    return 0;
}
