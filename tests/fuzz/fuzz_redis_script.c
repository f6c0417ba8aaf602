/* The Lua sandbox: a random source with random arguments and random replies of its host. It ends
 * with a status or one whole reply, within its bounds, and the same again when it is run again. The
 * input is the source, and behind a zero byte what is given as argument and as reply. */
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_script_rules.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct redis_script_limits limits = {
    .work = 200 * 1000, .memory = 512 * 1024, .reply_size = 64 * 1024};

/* Replies with what the input holds behind its source when that is a reply, or with an argument. */
struct host {
    struct bytes reply;
    struct buffer calls;
};

static enum status call(void *context, const struct bytes *argv, size_t argc, struct buffer *out) {
    struct host *host = context;
    for (size_t i = 0; i < argc; i++) {
        buffer_put_bytes(&host->calls, argv[i]);
    }
    struct buffer converted;
    buffer_init(&converted);
    if (host->reply.size > 0 && redis_reply_to_resp3(host->reply, &converted) == STATUS_OK) {
        buffer_append(out, host->reply.data, host->reply.size);
    } else {
        redis_reply_bulk(out, argv[argc - 1]);
    }
    buffer_clear(&converted);
    return STATUS_OK;
}

static enum status run(struct bytes source, struct bytes rest, struct host *host,
                       struct buffer *out) {
    struct redis_script_host script_host = {.context = host, .call = call};
    struct redis_script script = {
        .source = source, .keys = &rest, .n_keys = 1, .args = &rest, .n_args = 1};
    host->reply = rest;
    return redis_script_run(&script, &script_host, &limits, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size == 0 ? NULL : memchr(data, '\0', size);
    size_t source_size = end == NULL ? size : (size_t)(end - data);
    struct bytes source = bytes_of(data, source_size);
    struct bytes rest = end == NULL ? bytes_of(NULL, 0) : bytes_of(end + 1, size - source_size - 1);
    struct host first_host = {.reply = rest};
    struct host second_host = {.reply = rest};
    struct buffer first;
    struct buffer second;
    struct buffer converted;
    buffer_init(&first);
    buffer_init(&second);
    buffer_init(&converted);
    redis_script_forget();
    enum status status = run(source, rest, &first_host, &first);
    assert(run(source, rest, &second_host, &second) == status);
    assert(bytes_equal(bytes_of(first.data, first.size), bytes_of(second.data, second.size)));
    assert(bytes_equal(bytes_of(first_host.calls.data, first_host.calls.size),
                       bytes_of(second_host.calls.data, second_host.calls.size)));
    assert(status == STATUS_OK || first.size == 0);
    if (status == STATUS_OK) {
        assert(redis_reply_to_resp2(bytes_of(first.data, first.size), &converted) == STATUS_OK);
    }
    buffer_clear(&first_host.calls);
    buffer_clear(&second_host.calls);
    buffer_clear(&first);
    buffer_clear(&second);
    buffer_clear(&converted);
    return 0;
}
