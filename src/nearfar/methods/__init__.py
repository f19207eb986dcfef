"""The methods, each in the order and the letters of its paper, without checks and without a place where it runs.

A formula takes a block of rows as an array of any kind (NumPy's, torch's), changes it in place and returns small sums.
Where it runs is a :class:`nearfar.contracts.Place`, which may have compiled code for a formula. Formulas of words take
the rows of windows, and return their changes: a :class:`nearfar.contracts.Learner` adds them, window after window. The
page "Equations" of the documentation says where each equation stands, and which places have a form of their own.
"""
