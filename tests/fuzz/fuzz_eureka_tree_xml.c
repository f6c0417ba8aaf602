/* A body of the Eureka API in XML, and all that comes of it. */
#include "eureka_round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    struct eureka_tree tree;
    const char *error = NULL;
    arena_init(&arena);
    if (eureka_tree_read_xml(&tree, &arena, bytes_of(data, size), &error)) {
        assert(tree.n_nodes <= EUREKA_TREE_NODES_MAX);
        round_trip(tree.root, &arena);
    } else {
        assert(error != NULL);
    }
    arena_clear(&arena);
    return 0;
}
