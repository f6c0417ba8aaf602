/* Pure: run by every replica when the command is applied, with the same result. */
#include "sample_rules.h"

#include "core/cluster_version.h"

#include <endian.h>
#include <string.h>

/* Takes the next number of a queue: the counter, a lease, and a key that lives as long as the
 * lease, all in one revision. The request: TTL in milliseconds (varint), queue. The answer: number,
 * token (the key's create revision) and lease id (zigzags). */
static enum status take(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    reader_init(&reader, request);
    const struct rule_lease lease = {.ttl_ms = (int64_t)reader_get_varint(&reader)};
    struct bytes queue = reader_get_bytes(&reader);
    int64_t lease_id = 0;
    if (reader.failed || reader_left(&reader) != 0 || queue.size == 0 ||
        queue.size > SAMPLE_QUEUE_SIZE_MAX ||
        rule_lease_grant(run, &lease, &lease_id) != STATUS_OK) {
        return STATUS_INVALID; /* and nothing has changed */
    }
    uint8_t key[1 + SAMPLE_QUEUE_SIZE_MAX + sizeof(uint64_t)] = "c";
    memcpy(key + 1, queue.data, queue.size);
    int64_t number = rule_count_up(run, KEY_SPACE_SAMPLE, bytes_of(key, 1 + queue.size));
    key[0] = 't';
    memcpy(key + 1 + queue.size, &(uint64_t){htobe64((uint64_t)number)}, sizeof(uint64_t));
    struct bytes ticket = bytes_of(key, 1 + queue.size + sizeof(uint64_t));
    int64_t token = rule_put(run, KEY_SPACE_SAMPLE, ticket, (struct bytes){0}, lease_id);
    buffer_put_zigzag(answer, number);
    buffer_put_zigzag(answer, token);
    buffer_put_zigzag(answer, lease_id);
    return STATUS_OK;
}

const struct rule sample_rule_take = {.number = SAMPLE_RULE_TAKE,
                                      .name = "sample_take",
                                      .since_version = CLUSTER_VERSION_RULES,
                                      .spaces = {KEY_SPACE_SAMPLE},
                                      .run = take};
