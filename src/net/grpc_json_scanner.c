#include "net/grpc_json_reader.h"

static bool is_space(uint8_t byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_opening(uint8_t byte) {
    return byte == '{' || byte == '[';
}

static bool is_closing(uint8_t byte) {
    return byte == '}' || byte == ']';
}

/* A byte inside of quotes; true: the quotes end here. */
static bool ends_text(struct grpc_json_scanner *scanner, uint8_t byte) {
    if (scanner->is_escaped) {
        scanner->is_escaped = false;
    } else if (byte == '\\') {
        scanner->is_escaped = true;
    } else if (byte == '"') {
        scanner->is_text = false;
        return true;
    }
    return false;
}

/* True: the byte ends a number or a word outside of everything, and does not belong to it. */
static bool ends_word(const struct grpc_json_scanner *scanner, uint8_t byte) {
    return scanner->has_begun && scanner->depth == 0 &&
           (is_space(byte) || is_opening(byte) || byte == '"');
}

/* True: the value ends with this byte. */
static bool take(struct grpc_json_scanner *scanner, uint8_t byte) {
    if (scanner->is_text) {
        return ends_text(scanner, byte) && scanner->depth == 0;
    }
    if (!scanner->has_begun && is_space(byte)) {
        return false;
    }
    scanner->has_begun = true;
    if (byte == '"') {
        scanner->is_text = true;
    } else if (is_opening(byte)) {
        scanner->depth++;
    } else if (is_closing(byte)) {
        scanner->depth -= scanner->depth > 0;
        return scanner->depth == 0;
    }
    return false;
}

bool grpc_json_scanner_next(struct grpc_json_scanner *scanner, struct bytes *input) {
    size_t at = 0;
    bool is_whole = false;
    while (at < input->size && !is_whole) {
        if (!scanner->is_text && ends_word(scanner, input->data[at])) {
            is_whole = true;
            break;
        }
        is_whole = take(scanner, input->data[at++]);
    }
    *input = bytes_of(input->data + at, input->size - at);
    return is_whole;
}
