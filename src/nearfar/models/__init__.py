"""The estimators; maps and words have rooms of their own."""
