"""A program that drops its client in one of the client's own callbacks, as the garbage collector may.

    collected.py ENDPOINT NAME
"""
import gc
import os
import sys
import threading
import time

import lease


def main():
    box = {"client": lease.Client(sys.argv[1])}
    box["session"] = box["client"].session()
    box["hold"] = box["session"].lock(sys.argv[2])
    is_filled, is_told = threading.Event(), threading.Event()

    def told(_resource, _error):
        is_filled.wait()
        box.clear()
        gc.collect()
        is_told.set()

    box["watch"] = box["client"].observe(sys.argv[2], told)
    is_filled.set()
    assert is_told.wait(60)
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.01)
    print("closed")


if __name__ == "__main__":
    main()
