/*
 * Who this member is: its id, its cluster's id, its name. Made at the first start and stable ever
 * after; kept in a small text file with a checksum, replaced as a whole or not at all.
 */
#ifndef LEASED_SERVER_IDENTITY_H
#define LEASED_SERVER_IDENTITY_H

#include "base/bytes.h"
#include "base/status.h"
#include "server/options.h"

#include <stddef.h>
#include <stdint.h>

enum { IDENTITY_TEXT_SIZE_MAX = 512 };

struct identity {
    uint64_t cluster_id;  /* never 0 */
    uint64_t member_id;   /* never 0 */
    uint64_t data_dir_id; /* of the data directory: random; 0 in one of an earlier version */
    bool is_joined;       /* it was added to a cluster that ran already */
    char name[OPTIONS_NAME_SIZE_MAX + 1];
};

/* The id of a member of a new cluster, as etcd derives it from the token and its peer URLs. */
uint64_t identity_member_id(const char *token, const struct url_list *peer_urls);
/* The ids of the member and the cluster that these options describe, and its name. */
void identity_make(struct identity *identity, const struct options *options);

/* The same as releases 0.1 and 0.2 derived them. Data directories keep the ids that they were made
 * with. */
uint64_t identity_legacy_member_id(const char *token, const struct url_list *peer_urls);
void identity_make_legacy(struct identity *identity, const struct options *options);
/* True when this identity was made by such a release with these options. */
bool identity_is_legacy(const struct identity *identity, const struct options *options);

/* The text of the file; returns its size. */
size_t identity_encode(const struct identity *identity, char out_text[IDENTITY_TEXT_SIZE_MAX]);

/* STATUS_CORRUPT when it is anything but what identity_encode() wrote. */
enum status identity_decode(struct bytes text, struct identity *out_identity);

#endif
