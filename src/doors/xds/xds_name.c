#include "doors/xds/xds_name.h"

#include "registry/registry_model.h"

/* What is before the first tag, in either spelling: not every client decodes the target of a
 * channel. */
static const char *const first_tag[] = {"?tag=", "%3Ftag=", "%3ftag=", NULL};
static const char *const next_tag[] = {"&tag=", "%26tag=", NULL};

/* How long the separator at this place is; 0: there is none. */
static size_t separator_at(struct bytes text, size_t at, const char *const *separators) {
    for (; *separators != NULL; separators++) {
        size_t size = strlen(*separators);
        if (at + size <= text.size && memcmp(text.data + at, *separators, size) == 0) {
            return size;
        }
    }
    return 0;
}

/* The text up to the first separator; `rest` is what is behind it. */
static bool split(struct bytes text, const char *const *separators, struct bytes *out_head,
                  struct bytes *out_rest) {
    for (size_t at = 0; at < text.size; at++) {
        size_t size = separator_at(text, at, separators);
        if (size > 0) {
            *out_head = bytes_of(text.data, at);
            *out_rest = bytes_of(text.data + at + size, text.size - at - size);
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
    bool has_more = split(text, first_tag, &name.service, &rest);
    while (has_more) {
        if (name.n_tags == XDS_NAME_TAGS_MAX) {
            return false;
        }
        struct bytes tags = rest;
        struct bytes *tag = &name.tags[name.n_tags++];
        has_more = split(tags, next_tag, tag, &rest);
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
