"""The program itself: how it was installed, bringing it up to date, taking it away."""
