#include "doors/dns/dns_name.h"

#include <assert.h>

/* Names of honest clients have one pointer at most: more only cost time. */
enum { POINTER_BITS = 0xc0, POINTERS_MAX = 16 };

static uint8_t fold(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;
}

void dns_name_begin(struct dns_name *name) {
    name->size = 0;
}

bool dns_name_add(struct dns_name *name, struct bytes label) {
    /* One byte for its length, and one for the empty label that ends the name. */
    if (label.size == 0 || label.size > DNS_LABEL_SIZE_MAX ||
        name->size + 1 + label.size + 1 > DNS_NAME_SIZE_MAX) {
        return false;
    }
    name->wire[name->size] = (uint8_t)label.size;
    memcpy(name->wire + name->size + 1, label.data, label.size);
    name->size += 1 + label.size;
    return true;
}

bool dns_name_add_all(struct dns_name *name, const struct dns_name *other) {
    struct dns_labels labels;
    dns_name_labels(other, &labels);
    for (size_t i = 0; i < labels.n; i++) {
        if (!dns_name_add(name, labels.at[i])) {
            return false;
        }
    }
    return true;
}

void dns_name_end(struct dns_name *name) {
    assert(name->size < DNS_NAME_SIZE_MAX);
    name->wire[name->size++] = 0;
}

bool dns_name_read(struct bytes message, size_t position, struct dns_name *out_name,
                   size_t *out_end) {
    struct dns_name name;
    size_t at = position;
    size_t limit = position; /* where the next pointer has to lead before */
    size_t end = 0;          /* known from the first pointer on */
    unsigned n_pointers = 0;
    dns_name_begin(&name);
    while (at < message.size && message.data[at] != 0) {
        uint8_t length = message.data[at];
        if ((length & POINTER_BITS) == POINTER_BITS) {
            if (message.size - at < 2) {
                return false;
            }
            size_t target = (size_t)(length & ~POINTER_BITS) << 8 | message.data[at + 1];
            if (target >= limit || ++n_pointers > POINTERS_MAX) {
                return false;
            }
            end = end == 0 ? at + 2 : end;
            limit = target;
            at = target;
        } else {
            if (length > DNS_LABEL_SIZE_MAX || message.size - at - 1 < length ||
                !dns_name_add(&name, bytes_of(message.data + at + 1, length))) {
                return false;
            }
            at += 1 + (size_t)length;
        }
    }
    if (at >= message.size) {
        return false;
    }
    dns_name_end(&name);
    *out_name = name;
    *out_end = end == 0 ? at + 1 : end;
    return true;
}

void dns_name_labels(const struct dns_name *name, struct dns_labels *out_labels) {
    out_labels->n = 0;
    for (size_t at = 0; at < name->size && name->wire[at] != 0; at += 1 + (size_t)name->wire[at]) {
        assert(out_labels->n < DNS_LABELS_MAX);
        out_labels->at[out_labels->n++] = bytes_of(name->wire + at + 1, name->wire[at]);
    }
}

bool dns_name_from_text(struct bytes text, struct dns_name *out_name) {
    struct dns_name name;
    dns_name_begin(&name);
    if (text.size > 0 && text.data[text.size - 1] == '.') {
        text.size--;
    }
    if (text.size == 0) {
        return false;
    }
    size_t from = 0;
    for (size_t i = 0; i <= text.size; i++) {
        if (i == text.size || text.data[i] == '.') {
            if (!dns_name_add(&name, bytes_of(text.data + from, i - from))) {
                return false;
            }
            from = i + 1;
        }
    }
    dns_name_end(&name);
    *out_name = name;
    return true;
}

void dns_name_fold(struct dns_name *name) {
    /* Lengths are below 'A'. */
    for (size_t i = 0; i < name->size; i++) {
        name->wire[i] = fold(name->wire[i]);
    }
}

bool dns_label_equal(struct bytes a, struct bytes b) {
    if (a.size != b.size) {
        return false;
    }
    for (size_t i = 0; i < a.size; i++) {
        if (fold(a.data[i]) != fold(b.data[i])) {
            return false;
        }
    }
    return true;
}

bool dns_name_equal(const struct dns_name *a, const struct dns_name *b) {
    return dns_label_equal(bytes_of(a->wire, a->size), bytes_of(b->wire, b->size));
}
