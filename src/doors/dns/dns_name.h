/*
 * Names of DNS in wire form (RFC 1035 3.1): labels of 1 to 63 bytes with their lengths before them,
 * an empty one at the end, 255 bytes at most. Pure. Any byte may be in a label.
 */
#ifndef LEASED_DOORS_DNS_DNS_NAME_H
#define LEASED_DOORS_DNS_DNS_NAME_H

#include "base/bytes.h"

enum { DNS_NAME_SIZE_MAX = 255, DNS_LABEL_SIZE_MAX = 63, DNS_LABELS_MAX = 127 };

struct dns_name {
    size_t size; /* with the empty label; 0: no name yet */
    uint8_t wire[DNS_NAME_SIZE_MAX];
};

/* The labels of a name, without the empty one; they point into it. */
struct dns_labels {
    size_t n;
    struct bytes at[DNS_LABELS_MAX];
};

/* Reads a name that begins at `position` of a message, following pointers (RFC 1035 4.1.4), each of
 * which has to lead to an earlier place than the one before: so it ends. False: it is malformed, or
 * too long. `out_end` is the position after it. */
bool dns_name_read(struct bytes message, size_t position, struct dns_name *out_name,
                   size_t *out_end);

void dns_name_labels(const struct dns_name *name, struct dns_labels *out_labels);

/* Begins an empty name, to which labels are added; dns_name_end() makes it whole. False: the label
 * is empty or too long, or the name would be. */
void dns_name_begin(struct dns_name *name);
bool dns_name_add(struct dns_name *name, struct bytes label);
/* Adds all labels of another one. */
bool dns_name_add_all(struct dns_name *name, const struct dns_name *other);
void dns_name_end(struct dns_name *name);

/* Of a text with dots between labels, one at the end is allowed. False: it is no such name. */
bool dns_name_from_text(struct bytes text, struct dns_name *out_name);

/* Capital letters of ASCII become small ones (RFC 4343). */
void dns_name_fold(struct dns_name *name);
/* Equal but for the case of ASCII letters. */
bool dns_label_equal(struct bytes a, struct bytes b);
bool dns_name_equal(const struct dns_name *a, const struct dns_name *b);

#endif
