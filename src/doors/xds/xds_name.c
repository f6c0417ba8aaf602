#include "doors/xds/xds_name.h"

#include "registry/registry_model.h"

static const char tag_word[] = "tag=";
enum { TAG_SIZE = sizeof tag_word }; /* with the character before it */

/* A tag begins behind one of these: the first as in a URL, or with what a URL's path and a host
 * name may have, so that it needs no escapes in the target of a gRPC channel. */
static bool is_separator(uint8_t character, bool is_first) {
    return character == ';' || character == (is_first ? '?' : '&');
}

/* The text up to the first separator; `rest` is what is behind it. */
static bool split(struct bytes text, bool is_first, struct bytes *out_head,
                  struct bytes *out_rest) {
    for (size_t at = 0; at + TAG_SIZE <= text.size; at++) {
        if (is_separator(text.data[at], is_first) &&
            memcmp(text.data + at + 1, tag_word, TAG_SIZE - 1) == 0) {
            *out_head = bytes_of(text.data, at);
            *out_rest = bytes_of(text.data + at + TAG_SIZE, text.size - at - TAG_SIZE);
            return true;
        }
    }
    *out_head = text;
    return false;
}

bool xds_name_parse(struct bytes text, struct xds_name *out_name) {
    static const char federated[] = "xdstp:";
    size_t n = sizeof federated - 1;
    if (text.size > XDS_NAME_SIZE_MAX || (text.size >= n && memcmp(text.data, federated, n) == 0)) {
        return false;
    }
    struct xds_name name = {0};
    struct bytes rest = {0};
    bool has_more = split(text, true, &name.service, &rest);
    while (has_more) {
        if (name.n_tags == XDS_NAME_TAGS_MAX) {
            return false;
        }
        struct bytes tags = rest;
        struct bytes *tag = &name.tags[name.n_tags++];
        has_more = split(tags, false, tag, &rest);
        if (!registry_name_is_valid(*tag)) {
            return false;
        }
    }
    if (!registry_name_is_valid(name.service)) {
        return false;
    }
    *out_name = name;
    return true;
}

bool xds_name_is_wildcard(struct bytes text) {
    return text.size == 1 && text.data[0] == '*';
}
