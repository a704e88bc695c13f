"""Shell command lines, read without running them: which programs they would start, and how."""
