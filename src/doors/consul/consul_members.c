#include "doors/consul/consul_members.h"

#include <stdio.h>
#include <string.h>

size_t consul_members(struct consul_door *door, struct service_member out[CONSUL_MEMBERS_MAX]) {
    size_t n = service_members(door->service, out, CONSUL_MEMBERS_MAX);
    return n < CONSUL_MEMBERS_MAX ? n : CONSUL_MEMBERS_MAX;
}

static const char *first_url(const struct service_member *member) {
    if (member->peer_urls != NULL && member->peer_urls[0] != NULL) {
        return member->peer_urls[0];
    }
    return member->client_urls != NULL ? member->client_urls[0] : NULL;
}

const char *consul_member_address(const struct service_member *member,
                                  char out[CONSUL_ADDRESS_SIZE]) {
    const char *url = first_url(member);
    const char *host = url != NULL ? strstr(url, "://") : NULL;
    snprintf(out, CONSUL_ADDRESS_SIZE, "%s", host != NULL ? host + 3 : "127.0.0.1:8300");
    return out;
}

void consul_member_show_id(struct consul_json *json, const char *name,
                           const struct service_member *member) {
    char text[40];
    snprintf(text, sizeof text, "00000000-0000-0000-%04x-%012llx", (unsigned)(member->id >> 48),
             (unsigned long long)(member->id & 0xffffffffffffULL));
    consul_json_set_chars(json, name, text);
}
