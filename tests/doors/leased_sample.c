/* `leased` with the sample door in its list. */
#include "doors/etcd/etcd_door.h"
#include "sample_door.h"
#include "server/leased_main.h"

int main(int argc, char **argv) {
    static const struct door *const doors[] = {&etcd_door, &sample_door};
    const struct door_list list = {.doors = doors, .n_doors = sizeof doors / sizeof doors[0]};
    return leased_main(&list, argc, argv);
}
