/* Every route of the Eureka API, with the right that it needs. */
#include "doors/eureka/eureka_internal.h"

#define REQUESTS(prefix)                                                                           \
    {"GET " prefix "/apps", DOOR_RIGHT_READ}, {"GET " prefix "/apps/", DOOR_RIGHT_READ},           \
        {"GET " prefix "/apps/delta", DOOR_RIGHT_READ},                                            \
        {"GET " prefix "/apps/{app}", DOOR_RIGHT_READ},                                            \
        {"POST " prefix "/apps/{app}", DOOR_RIGHT_WRITE},                                          \
        {"GET " prefix "/apps/{app}/{id}", DOOR_RIGHT_READ},                                       \
        {"PUT " prefix "/apps/{app}/{id}", DOOR_RIGHT_WRITE},                                      \
        {"DELETE " prefix "/apps/{app}/{id}", DOOR_RIGHT_WRITE},                                   \
        {"PUT " prefix "/apps/{app}/{id}/status", DOOR_RIGHT_WRITE},                               \
        {"DELETE " prefix "/apps/{app}/{id}/status", DOOR_RIGHT_WRITE},                            \
        {"PUT " prefix "/apps/{app}/{id}/metadata", DOOR_RIGHT_WRITE},                             \
        {"GET " prefix "/vips/{vip}", DOOR_RIGHT_READ},                                            \
        {"GET " prefix "/svips/{vip}", DOOR_RIGHT_READ},                                           \
        {"GET " prefix "/instances/{id}", DOOR_RIGHT_READ}, {                                      \
        "* " prefix "/peerreplication/{rest...}", DOOR_RIGHT_USER                                  \
    } /* refused */

const struct door_request eureka_requests[] = {
    REQUESTS("/eureka"),
    REQUESTS("/eureka/v2"),
    {NULL, DOOR_RIGHT_NONE},
};
