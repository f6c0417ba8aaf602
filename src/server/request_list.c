#include "server/request_list.h"

#include "server/routes.h"

#include <assert.h>

const char *request_list_right_name(enum door_right right) {
    static const char *const names[] = {
        [DOOR_RIGHT_NONE] = "none", [DOOR_RIGHT_USER] = "user",
        [DOOR_RIGHT_READ] = "read", [DOOR_RIGHT_WRITE] = "write",
        [DOOR_RIGHT_ROOT] = "root", [DOOR_RIGHT_READ_WRITE] = "read_write",
    };
    assert(right < sizeof names / sizeof names[0]);
    return names[right];
}

static void print(const char *door, const struct door_request *requests, FILE *stream) {
    for (const struct door_request *at = requests; at->name != NULL; at++) {
        fprintf(stream, "%s\t%s\t%s\n", door, at->name, request_list_right_name(at->right));
    }
}

void request_list_print(const struct door_list *doors, FILE *stream) {
    print("server", routes_requests, stream);
    for (size_t i = 0; i < doors->n_doors; i++) {
        print(doors->doors[i]->name, doors->doors[i]->requests, stream);
    }
}
