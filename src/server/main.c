#include "doors/doors.h"
#include "server/leased_main.h"

int main(int argc, char **argv) {
    return leased_main(&all_doors, argc, argv);
}
