"""Cases that run at ZooKeeper and at leased; test_zookeeper_same_answers.py compares what they write down."""
