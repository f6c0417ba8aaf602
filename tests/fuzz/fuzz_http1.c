/* An HTTP/1.1 session fed with anything; the first byte chooses how the rest is cut. */
#include "base/log.h"
#include "net/http1_session.h"
#include "net/net_shared.h"
#include "net/protocol.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { PAGE_SIZE = 1000, ANSWER_SIZE_MAX = 1000 + 512 };

static void on_request(struct http_exchange *exchange) {
    static const uint8_t page[PAGE_SIZE];
    http_reply(exchange, 200, "text/plain", bytes_of(page, sizeof page));
}

static const struct http_route route = {.method = "GET", .pattern = "/p", .on_request = on_request};

static void wake(struct protocol_host *host) {
    (void)host;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    struct net_limits limits = net_limits_default;
    limits.header_size_max = 1000;
    struct net_shared shared;
    net_shared_init(&shared, &limits, 1);
    route_tree_add(&shared.routes.tree, &route, NULL);
    struct protocol_host host = {.shared = &shared, .wake = wake};
    const struct protocol *protocol = &http1_protocol;
    void *session = protocol->open(&host);
    assert(session != NULL);
    struct buffer out;
    buffer_init(&out);
    size_t piece_max = (data[0] & 15) == 0 ? SIZE_MAX : (size_t)(data[0] & 15) * 3;
    struct bytes input = bytes_of(data + 1, size - 1);
    while (input.size > 0 && protocol->state(session) < SESSION_ENDING) {
        size_t piece = input.size < piece_max ? input.size : piece_max;
        protocol->on_bytes(session, bytes_of(input.data, piece));
        input.data += piece;
        input.size -= piece;
        /* However much is asked at once, the answers are bounded. */
        assert(protocol->queued_bytes(session) <= (size_t)HTTP1_PIPELINED_MAX * ANSWER_SIZE_MAX);
        if ((data[0] & 16) == 0) {
            out.size = 0;
            protocol->produce(session, 700, &out);
            protocol->settle(session);
        }
    }
    protocol->drain(session);
    protocol->close(session);
    buffer_clear(&out);
    assert(shared.partial_bytes == 0);
    assert(shared.stats.queued_bytes == 0);
    net_shared_clear(&shared);
    return 0;
}
