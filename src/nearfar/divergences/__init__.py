"""Divergences: the cost of the probabilities of a map against those of its data, and stresses, that of its distances.

Give an estimator an object of these, or one of your own: a :class:`Divergence` with the methods ``value(p, q)`` and
``derivative(p, q)``, see the guide "Extending".
"""

from nearfar._core import names
from nearfar.divergences.probability import KL as KL
from nearfar.divergences.probability import Accuracy as Accuracy
from nearfar.divergences.probability import Divergence as Divergence
from nearfar.divergences.probability import Formulas as Formulas
from nearfar.divergences.probability import JensenShannon as JensenShannon
from nearfar.divergences.probability import NeRV as NeRV
from nearfar.divergences.probability import ReverseKL as ReverseKL
from nearfar.divergences.stress import MetricStress as MetricStress
from nearfar.divergences.stress import Sammon as Sammon
from nearfar.divergences.stress import SStress as SStress

names.public_names(__name__)
