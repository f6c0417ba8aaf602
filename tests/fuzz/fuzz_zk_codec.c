/* Answers of a ZooKeeper server as `lease import` reads them: the first byte chooses what the frame
 * is taken for. */
#include "client/zk_codec.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_acl(struct bytes body) {
    struct bytes acl;
    struct buffer list;
    struct bytes again;
    if (!zk_get_acl(body, &acl)) {
        return;
    }
    assert(acl.size <= body.size);
    (void)zk_acl_is_masked(acl);
    buffer_init(&list);
    zk_acl_with(&list, acl, "digest", "somebody:hash");
    assert(zk_get_acl(bytes_of(list.data, list.size), &again) && again.size == list.size);
    buffer_clear(&list);
}

static void read_children(struct bytes body) {
    struct zk_children_reader reader;
    struct bytes name;
    if (zk_children_begin(body, &reader)) {
        while (zk_children_next(&reader, &name)) {
            assert(name.size > 0 && name.data >= body.data &&
                   name.data + name.size <= body.data + body.size);
        }
    }
}

static void read_node(struct bytes body) {
    struct bytes value;
    struct zk_node_stat stat;
    bool is_null;
    if (zk_get_data(body, &value, &is_null, &stat)) {
        assert(value.size <= body.size && zk_stat_creates(&stat) >= 0);
        assert(zk_stat_kind(&stat) != ZK_KIND_TTL || zk_stat_ttl_ms(&stat) >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes frame;
    size_t used;
    struct zk_answer answer;
    struct zk_connected connected;
    struct zk_node_stat stat;
    int32_t number;
    if (size < 1 || zk_take_frame(bytes_of(data + 1, size - 1), &frame, &used) != ZK_FRAME_WHOLE) {
        return 0;
    }
    assert(used <= size - 1 && frame.size + 4 == used);
    (void)zk_get_connected(frame, &connected);
    if (!zk_get_answer(frame, &answer)) {
        return 0;
    }
    switch (data[0] % 5) {
    case 0:
        read_node(answer.body);
        break;
    case 1:
        read_acl(answer.body);
        break;
    case 2:
        read_children(answer.body);
        break;
    case 3:
        (void)zk_get_stat(answer.body, &stat);
        break;
    default:
        (void)zk_get_number(answer.body, &number);
    }
    return 0;
}
