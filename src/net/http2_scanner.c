#include "net/http2_scanner.h"

#include <string.h>

enum { TYPE_DATA = 0, TYPE_PRIORITY = 2, TYPE_RST_STREAM = 3 };

void http2_scanner_init(struct http2_scanner *scanner) {
    *scanner = (struct http2_scanner){.skip = HTTP2_PREFACE_SIZE};
}

static uint32_t stream_at(const uint8_t *at) {
    return ((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]) &
           0x7fffffff;
}

static uint32_t length_of(const uint8_t *head) {
    return (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
}

static bool is_priority(const uint8_t *head) {
    return head[3] == TYPE_PRIORITY && length_of(head) >= HTTP2_DEPENDENCY_SIZE;
}

/* A head, and a dependency behind it if it is of PRIORITY, that came in pieces. False: not whole.
 */
static bool keep(struct http2_scanner *scanner, struct bytes *bytes) {
    for (;;) {
        bool has_head = scanner->kept_size >= HTTP2_FRAME_HEAD_SIZE;
        size_t wanted =
            has_head && is_priority(scanner->kept) ? HTTP2_SCANNED_SIZE : HTTP2_FRAME_HEAD_SIZE;
        if (scanner->kept_size == wanted) {
            return true;
        }
        if (bytes->size == 0) {
            return false;
        }
        scanner->kept[scanner->kept_size++] = bytes->data[0];
        bytes->data++;
        bytes->size--;
    }
}

static inline enum http2_scan_result check(struct http2_streams *streams, const uint8_t *head) {
    if (head[3] > TYPE_RST_STREAM) {
        return HTTP2_SCAN_OK;
    }
    int32_t stream_id = (int32_t)stream_at(head + 5);
    if (head[3] == TYPE_DATA) {
        return http2_streams_allow_data(streams, stream_id) ? HTTP2_SCAN_OK
                                                            : HTTP2_SCAN_STREAM_CLOSED;
    }
    if (head[3] == TYPE_RST_STREAM) {
        http2_streams_note_ended(streams, stream_id);
    } else if (is_priority(head) &&
               (stream_id == 0 || (uint32_t)stream_id == stream_at(head + HTTP2_FRAME_HEAD_SIZE))) {
        return HTTP2_SCAN_PRIORITY_ERROR;
    }
    return HTTP2_SCAN_OK;
}

enum http2_scan_result http2_scanner_scan(struct http2_scanner *scanner,
                                          struct http2_streams *streams, struct bytes bytes,
                                          size_t *out_n_priorities) {
    enum http2_scan_result result = HTTP2_SCAN_OK;
    *out_n_priorities = 0;
    while (bytes.size > 0 && result == HTTP2_SCAN_OK) {
        size_t skip = scanner->skip < bytes.size ? scanner->skip : bytes.size;
        bytes.data += skip;
        bytes.size -= skip;
        scanner->skip -= (uint32_t)skip;
        /* The usual case: the whole head of a frame of another type. */
        if (scanner->kept_size == 0 && bytes.size >= HTTP2_FRAME_HEAD_SIZE &&
            !is_priority(bytes.data)) {
            scanner->skip = HTTP2_FRAME_HEAD_SIZE + length_of(bytes.data);
            result = check(streams, bytes.data);
            continue;
        }
        if (scanner->skip > 0 || !keep(scanner, &bytes)) {
            break;
        }
        scanner->skip = length_of(scanner->kept);
        scanner->kept_size = 0;
        if (is_priority(scanner->kept)) {
            scanner->skip -= HTTP2_DEPENDENCY_SIZE;
            (*out_n_priorities)++;
        }
        result = check(streams, scanner->kept);
    }
    return result;
}
