"""Requests with odd parameters, typed at etcd and at leased alike; see test_same_answers.py."""
