/* The program `lease`; everything else is a library so that tests reach it. */
#include "cli/cli.h"

int main(int argc, char **argv) {
    return cli_main(argc, argv);
}
