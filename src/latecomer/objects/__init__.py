"""Object stores and HDFS: what a URL names, how it is reached, and how objects are read and written."""
