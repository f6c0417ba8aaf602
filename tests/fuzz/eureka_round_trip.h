/*
 * For the targets of the Eureka API's bodies: what is accepted can be kept, is shown, and what is
 * shown can be read again, in both formats.
 */
#ifndef LEASED_TESTS_FUZZ_EUREKA_ROUND_TRIP_H
#define LEASED_TESTS_FUZZ_EUREKA_ROUND_TRIP_H

#include "doors/eureka/eureka_document.h"

#include <assert.h>

static void read_again(const struct eureka_instance *shown, enum eureka_format format,
                       struct arena *arena) {
    struct buffer out;
    struct eureka_writer writer;
    struct eureka_tree tree;
    struct eureka_instance again;
    const char *error = NULL;
    buffer_init(&out);
    eureka_writer_init(&writer, &out, format);
    eureka_document_instance(&writer, shown);
    struct bytes document = bytes_of(out.data, out.size);
    if (document.size <= EUREKA_BODY_SIZE_MAX) {
        bool is_read = format == EUREKA_JSON ? eureka_tree_read_json(&tree, arena, document, &error)
                                             : eureka_tree_read_xml(&tree, arena, document, &error);
        assert(is_read);
        is_read = eureka_instance_read(tree.root, arena, &again, &error);
        assert(is_read);
        assert(again.status == shown->status);
        assert(again.override == shown->override);
        assert(again.port.number == shown->port.number);
        assert(again.lease.duration_s == shown->lease.duration_s);
        assert(bytes_equal(again.id, shown->id));
    }
    buffer_clear(&out);
}

/* The tree's root. */
static void round_trip(const struct eureka_node *root, struct arena *arena) {
    struct eureka_instance instance;
    struct eureka_instance shown;
    struct registry_entry entry = {0};
    const char *error = NULL;
    if (!eureka_instance_read(root, arena, &instance, &error) ||
        !eureka_instance_register(&instance, arena, &entry.instance, &error)) {
        assert(error != NULL);
        return;
    }
    assert(registry_instance_is_valid(&entry.instance));
    eureka_instance_show(&entry, arena, &shown);
    assert(bytes_equal(shown.id, instance.id));
    assert(shown.n_metadata == instance.n_metadata);
    assert(shown.status == instance.status || instance.override != EUREKA_UNKNOWN);
    read_again(&shown, EUREKA_JSON, arena);
    read_again(&shown, EUREKA_XML, arena);
}

#endif
