#include "checks/check_answer.h"

#include <strings.h>

void check_answer_init(struct check_answer *answer, bool is_of_head) {
    *answer = (struct check_answer){.is_of_head = is_of_head, .keeps_alive = true};
    buffer_init(&answer->body);
    buffer_init(&answer->line);
}

void check_answer_clear(struct check_answer *answer) {
    buffer_clear(&answer->body);
    buffer_clear(&answer->line);
}

static void fail(struct check_answer *answer, const char *error) {
    answer->state = CHECK_ANSWER_FAILED;
    answer->error = error;
}

static void finish(struct check_answer *answer) {
    answer->state = CHECK_ANSWER_DONE;
}

/* ---- lines ---- */

static bool is_digit(uint8_t letter) {
    return letter >= '0' && letter <= '9';
}

/* "HTTP/1.1 200 OK" (RFC 9112, section 4); the reason may be missing. */
static void read_status_line(struct check_answer *answer, struct bytes line) {
    const uint8_t *at = line.data;
    bool is_good = line.size >= sizeof "HTTP/1.1 200" - 1 && memcmp(at, "HTTP/1.", 7) == 0 &&
                   is_digit(at[7]) && at[8] == ' ' && at[9] >= '1' && at[9] <= '9' &&
                   is_digit(at[10]) && is_digit(at[11]) && (line.size == 12 || at[12] == ' ');
    if (!is_good) {
        fail(answer, "the answer is not HTTP/1.1");
        return;
    }
    answer->is_http10 = at[7] == '0';
    answer->keeps_alive = !answer->is_http10;
    answer->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    size_t size = line.size > 13 ? line.size - 13 : 0;
    size = size < CHECK_ANSWER_REASON_MAX ? size : CHECK_ANSWER_REASON_MAX;
    memcpy(answer->reason, at + (size > 0 ? 13 : 0), size);
    answer->reason[size] = '\0';
    answer->has_length = false;
    answer->is_chunked = false;
    answer->left = 0;
    answer->part = CHECK_ANSWER_HEADERS;
}

static struct bytes trim(struct bytes text) {
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

static bool is_text(struct bytes text, const char *other) {
    return text.size == strlen(other) &&
           strncasecmp((const char *)text.data, other, text.size) == 0;
}

static void read_length(struct check_answer *answer, struct bytes value) {
    uint64_t length = 0;
    bool is_good = value.size > 0 && value.size <= 18;
    for (size_t i = 0; is_good && i < value.size; i++) {
        is_good = is_digit(value.data[i]);
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (!is_good || (answer->has_length && length != answer->left)) {
        fail(answer, "the answer has no good Content-Length");
        return;
    }
    answer->has_length = true;
    answer->left = length;
}

static void read_header(struct check_answer *answer, struct bytes line) {
    const uint8_t *colon = memchr(line.data, ':', line.size);
    if (colon == NULL || colon == line.data) {
        /* A continuation (RFC 9112, section 5.2) belongs to a header that does not matter here. */
        if (line.data[0] != ' ' && line.data[0] != '\t') {
            fail(answer, "the answer has a line in its header that is none");
        }
        return;
    }
    size_t name_size = (size_t)(colon - line.data);
    struct bytes name = bytes_of(line.data, name_size);
    struct bytes value = trim(bytes_of(colon + 1, line.size - name_size - 1));
    if (is_text(name, "content-length")) {
        read_length(answer, value);
    } else if (is_text(name, "transfer-encoding")) {
        answer->is_chunked = is_text(value, "chunked");
        if (!answer->is_chunked) {
            fail(answer, "the answer has a transfer coding that was not asked for");
        }
    } else if (is_text(name, "connection")) {
        answer->keeps_alive =
            is_text(value, "keep-alive") || (answer->keeps_alive && !is_text(value, "close"));
    }
}

/* How long the body is (RFC 9112, section 6.3). */
static void end_header(struct check_answer *answer) {
    if (answer->status == 101) {
        fail(answer, "the answer changes to another protocol, which was not asked for");
    } else if (answer->status < 200) {
        answer->part = CHECK_ANSWER_STATUS_LINE;
    } else if (answer->is_of_head || answer->status == 204 || answer->status == 304) {
        /* Some send a body nevertheless, which would be taken for the next answer. */
        answer->keeps_alive =
            answer->keeps_alive && !answer->is_of_head && !answer->is_chunked && answer->left == 0;
        finish(answer);
    } else if (answer->is_chunked) {
        answer->keeps_alive = answer->keeps_alive && !answer->has_length;
        answer->part = CHECK_ANSWER_CHUNK_SIZE;
    } else if (!answer->has_length) {
        answer->keeps_alive = false;
        answer->part = CHECK_ANSWER_TO_END;
    } else if (answer->left == 0) {
        finish(answer);
    } else {
        answer->part = CHECK_ANSWER_LENGTH;
    }
}

static int hex_digit(uint8_t letter) {
    uint8_t lower = letter | 0x20;
    return is_digit(letter) ? letter - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static void read_chunk_size(struct check_answer *answer, struct bytes line) {
    size_t n = 0;
    uint64_t size = 0;
    while (n < line.size && n < 15 && hex_digit(line.data[n]) >= 0) {
        size = size * 16 + (uint64_t)hex_digit(line.data[n]);
        n++;
    }
    struct bytes rest = trim(bytes_of(line.data + n, line.size - n));
    if (n == 0 || (rest.size > 0 && rest.data[0] != ';')) {
        fail(answer, "the answer has a chunk without a good size");
        return;
    }
    answer->left = size;
    answer->part = size == 0 ? CHECK_ANSWER_TRAILERS : CHECK_ANSWER_CHUNK;
}

static void read_line(struct check_answer *answer, struct bytes line) {
    switch (answer->part) {
    case CHECK_ANSWER_STATUS_LINE:
        read_status_line(answer, line);
        break;
    case CHECK_ANSWER_HEADERS:
        if (line.size == 0) {
            end_header(answer);
        } else {
            read_header(answer, line);
        }
        break;
    case CHECK_ANSWER_CHUNK_SIZE:
        read_chunk_size(answer, line);
        break;
    case CHECK_ANSWER_CHUNK_END:
        answer->part = CHECK_ANSWER_CHUNK_SIZE;
        if (line.size > 0) {
            fail(answer, "the answer has a chunk that is longer than its size");
        }
        break;
    default: /* trailers */
        if (line.size == 0) {
            finish(answer);
        }
    }
}

/* Takes bytes up to the end of a line; chunks' sizes count as a header's bytes do, so that an
 * endless run of small chunks ends as well. */
static size_t feed_line(struct check_answer *answer, struct bytes bytes) {
    const uint8_t *end = memchr(bytes.data, '\n', bytes.size);
    size_t size = end != NULL ? (size_t)(end - bytes.data) + 1 : bytes.size;
    answer->header_size += size;
    if (answer->header_size > CHECK_ANSWER_HEADER_MAX) {
        fail(answer, "the header of the answer is too long");
        return size;
    }
    buffer_append(&answer->line, bytes.data, size);
    if (end != NULL) {
        struct bytes line = bytes_of(answer->line.data, answer->line.size - 1);
        if (line.size > 0 && line.data[line.size - 1] == '\r') {
            line.size--;
        }
        read_line(answer, line);
        answer->line.size = 0;
    }
    return size;
}

/* ---- the body ---- */

static void keep(struct check_answer *answer, struct bytes bytes) {
    size_t room = CHECK_ANSWER_BODY_MAX - answer->body.size;
    buffer_append(&answer->body, bytes.data, bytes.size < room ? bytes.size : room);
    if (bytes.size > room) {
        answer->is_cut = true;
        answer->keeps_alive = false;
        finish(answer);
    }
}

static size_t feed_body(struct check_answer *answer, struct bytes bytes) {
    if (answer->part == CHECK_ANSWER_TO_END) {
        keep(answer, bytes);
        return bytes.size;
    }
    size_t size = bytes.size < answer->left ? bytes.size : (size_t)answer->left;
    answer->left -= size;
    keep(answer, bytes_of(bytes.data, size));
    if (answer->left == 0 && answer->state == CHECK_ANSWER_MORE) {
        if (answer->part == CHECK_ANSWER_CHUNK) {
            answer->part = CHECK_ANSWER_CHUNK_END;
        } else {
            finish(answer);
        }
    }
    return size;
}

static bool is_in_body(const struct check_answer *answer) {
    return answer->part == CHECK_ANSWER_LENGTH || answer->part == CHECK_ANSWER_CHUNK ||
           answer->part == CHECK_ANSWER_TO_END;
}

enum check_answer_state check_answer_feed(struct check_answer *answer, struct bytes bytes) {
    answer->has_begun = answer->has_begun || bytes.size > 0;
    while (bytes.size > 0 && answer->state == CHECK_ANSWER_MORE) {
        size_t size = is_in_body(answer) ? feed_body(answer, bytes) : feed_line(answer, bytes);
        bytes = bytes_of(bytes.data + size, bytes.size - size);
    }
    if (bytes.size > 0) {
        answer->keeps_alive = false;
    }
    return answer->state;
}

enum check_answer_state check_answer_end(struct check_answer *answer) {
    if (answer->state == CHECK_ANSWER_MORE) {
        answer->keeps_alive = false;
        if (answer->part == CHECK_ANSWER_TO_END) {
            finish(answer);
        } else {
            fail(answer, answer->has_begun ? "the connection ended before the answer did"
                                           : "the connection was closed without an answer");
        }
    }
    return answer->state;
}
