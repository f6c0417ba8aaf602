#include "doors/zookeeper/zk_node_read.h"

#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_tellings.h"

bool zk_node_find(struct zk_door *door, struct bytes path, struct zk_shown_node *out_node) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    struct bytes begin;
    struct bytes end;
    *out_node = (struct zk_shown_node){0};
    if (path.size == 0 || path.size > ZK_PATH_SIZE_MAX) {
        return false;
    }
    const struct record *record =
        key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_node(&door->arena, path));
    if (record == NULL || !zk_node_decode(record, &out_node->node)) {
        return false;
    }
    record = key_store_find(keys, KEY_SPACE_ZOOKEEPER, zk_key_children(&door->arena, path));
    if (record != NULL) {
        (void)zk_children_decode(record_value(record), &out_node->children);
    }
    zk_key_children_range(&door->arena, path, &begin, &end);
    out_node->n_children = (int64_t)key_store_count(keys, KEY_SPACE_ZOOKEEPER, begin, end);
    return true;
}

void zk_node_write_stat(const struct zk_shown_node *node, struct buffer *out) {
    zk_stat_write(out, &node->node, &node->children, node->n_children);
}

bool zk_node_allows(struct zk_connection *connection, const struct zk_shown_node *node,
                    int permissions) {
    const struct zk_id *ids;
    if (node->node.acl.size == 0) {
        return true;
    }
    size_t n = zk_access_ids(connection, &connection->door->arena, &ids);
    return zk_acl_allows(node->node.acl, permissions, ids, n);
}

static int64_t shown_pzxid(const struct zk_shown_node *node) {
    return node->children.pzxid != 0 ? node->children.pzxid : node->node.czxid;
}

unsigned zk_node_missed(struct zk_connection *connection, struct bytes path, unsigned kinds,
                        int64_t since) {
    struct zk_shown_node node;
    bool exists = zk_node_find(connection->door, path, &node);
    unsigned lasting = kinds & (ZK_WATCH_PERSISTENT | ZK_WATCH_RECURSIVE);
    unsigned over = 0;
    if (!exists) {
        /* A watch of a node that did not exist waits on; one of its data or children is over. The
         * table does not tell them apart, and a deletion too much is harmless. */
        zk_tellings_tell(connection, ZK_EVENT_DELETED, path);
        return kinds & (ZK_WATCH_DATA | ZK_WATCH_CHILD);
    }
    if (kinds & (ZK_WATCH_DATA | lasting) && node.node.czxid > since) {
        zk_tellings_tell(connection, ZK_EVENT_CREATED, path);
        over |= ZK_WATCH_DATA;
    } else if (kinds & (ZK_WATCH_DATA | lasting) && node.node.mzxid > since) {
        zk_tellings_tell(connection, ZK_EVENT_DATA_CHANGED, path);
        over |= ZK_WATCH_DATA;
    }
    if (kinds & (ZK_WATCH_CHILD | ZK_WATCH_PERSISTENT) && shown_pzxid(&node) > since) {
        zk_tellings_tell(connection, ZK_EVENT_CHILDREN_CHANGED, path);
        over |= ZK_WATCH_CHILD;
    }
    return over & kinds;
}
