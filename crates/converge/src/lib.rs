//! A run on this machine: compile, bind, graph, drive, journal, report.
