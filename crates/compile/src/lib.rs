//! State files to compiled states: templates, YAML, includes, requisites.
